from django.urls import path

from shop import views

urlpatterns = [
    path("orders/<int:number>/", views.order),
    path("refused/<int:number>/", views.refused),
    path("replica/", views.replica),
]
